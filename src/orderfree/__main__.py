"""`python -m orderfree`"""

from .cli.main import run

run()
