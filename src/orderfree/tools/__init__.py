"""Side products of the library, one module for each command: they import the core, the core imports none of them."""
