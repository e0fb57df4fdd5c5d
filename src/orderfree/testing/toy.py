"""A made-up town newspaper, written from a seed: short reports and the labels an editor gave them.

A report tells one or two scenes. A scene shows words, and stands for one of a few label sets. Where the words leave
several sets open, the labels are not independent given the text: the words of a spoiled journey mean a railway on
strike, or a ferry in a storm, or an airport, never a bit of each. The most probable set is then not the set of the
probable labels, and a model of label sets can win over one classifier per label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

import numpy as np

from ..types import Example

SECTIONS = {
    "sport": ("tennis", "rowing", "cycling", "chess"),
    "food": ("bakery", "cheese", "wine"),
    "travel": ("railway", "ferry", "airport", "tram"),
    "culture": ("theatre", "concert", "museum", "ballet"),
    "nature": ("garden", "birds", "river", "bees"),
    "money": ("bank", "shop", "housing"),
}
EVENTS = ("accident", "rescue", "lawsuit", "award", "storm", "drought", "strike", "festival")
LABELS = (*(label for parent, children in SECTIONS.items() for label in (parent, *children)), *EVENTS)
PARENTS = {child: parent for parent, children in SECTIONS.items() for child in children}
SIBLINGS = {pair for children in SECTIONS.values() for pair in combinations(children, 2)}
EXCLUSIVE = SIBLINGS - {("cheese", "wine")} | {("storm", "drought"), ("strike", "festival")}
MAX_LABELS = 5
ONE_SCENE = 0.45  # share of reports that tell a single scene
HELD_BACK = 6  # every sixth label set of two scenes is kept out of training


@dataclass(frozen=True)
class Scene:
    """Its words come in pairs, all equally likely, each with at least one word of its own."""

    weight: float  # how often it is told
    outcomes: dict[str, float]  # label sets it may stand for, as names between spaces
    words: str
    shared: str = ""  # words of its section, which its siblings show too

    def pairs(self) -> list[tuple[str, str]]:
        own = self.words.split()
        return [(a, b) for a, b in permutations(own + self.shared.split(), 2) if a in own or b in own]

    def labels(self) -> set[str]:
        return {label for outcome in self.outcomes for label in outcome.split()}


def _open(weight: float, words: str, *outcomes: str) -> Scene:
    return Scene(weight, dict(zip(outcomes, (0.45, 0.3, 0.25), strict=True)), words)


# Words of a whole section: alone they do not tell its children apart.
SHARED = {
    "sport": "trophy final coach stopwatch medal rival stadium champion",
    "food": "tasting counter recipe basket cellar flavour supplier apron",
    "travel": "passenger timetable delay suitcase ticket queue cancellation traveller",
    "culture": "audience rehearsal premiere poster applause critic director programme",
    "nature": "meadow ranger wildlife path season pond habitat biologist",
    "money": "contract invoice price customer manager percentage budget signature",
}
# Two rows share a word now and then: court, stage, crew, gate, current, note, wing, score, queen.
CHILDREN: dict[str, tuple[float, str]] = {
    "tennis": (16, "racket backhand volley umpire court net score serve"),
    "rowing": (7, "oar rower crew cox stroke regatta current boathouse"),
    "cycling": (10, "bicycle helmet peloton sprint stage pedal saddle climb"),
    "chess": (2.1, "pawn bishop queen chessboard checkmate gambit rook endgame"),
    "bakery": (10, "loaf flour oven pastry dough croissant baker crust"),
    "cheese": (8, "cheddar rind dairy goat milk brie curd creamery"),
    "wine": (4, "vineyard bottle grape cork vintage barrel harvest sommelier"),
    "railway": (14, "train locomotive platform conductor station track carriage junction"),
    "ferry": (5, "deck captain crew pier anchor island crossing harbour"),
    "airport": (7, "runway pilot terminal jet gate wing customs hangar"),
    "tram": (2.1, "tramline depot overhead stop cable driver bell loop"),
    "theatre": (8, "actor stage scene costume drama curtain playwright monologue"),
    "concert": (6, "orchestra violin note score singer choir symphony drum"),
    "museum": (2.5, "exhibit curator statue gallery painting antique sculpture vase"),
    "ballet": (2.1, "dancer tutu pirouette slipper choreographer leotard duet swan"),
    "garden": (7, "tulip lawn hedge gate compost rose greenhouse shovel"),
    "birds": (3, "sparrow feather owl wing beak heron migration robin"),
    "river": (4, "bend current trout bridge ford weir otter rapids"),
    "bees": (2.1, "hive honey queen swarm comb pollen smoker keeper"),
    "bank": (8, "loan vault note interest teller savings branch mortgage"),
    "shop": (8, "window discount shelf till bargain clerk display sale"),
    "housing": (5, "rent tenant apartment landlord lease flat roof neighbourhood"),
}
PARTNERS = {"cheese": {"food cheese wine": 0.8, "food cheese": 0.2}}  # wine that the text is silent about
SCENES = [
    *(
        Scene(weight, PARTNERS.get(child, {f"{PARENTS[child]} {child}": 1.0}), words, SHARED[PARENTS[child]])
        for child, (weight, words) in CHILDREN.items()
    ),
    # A section without a child.
    Scene(6, {"sport": 1.0}, "league club locker physiotherapist gym whistle jersey scoreboard"),
    Scene(4, {"food": 1.0}, "lunch dinner menu kitchen spoon cook soup breakfast"),
    Scene(5, {"travel": 1.0}, "guidebook backpack map tourist hotel itinerary passport postcard"),
    Scene(3, {"culture": 1.0}, "subsidy novel poetry library heritage mural essay sonnet"),
    Scene(3, {"nature": 1.0}, "forest moss oak fern mushroom squirrel hill trail"),
    Scene(5, {"money": 1.0}, "tax treasury inflation economist deficit currency pension tariff"),
    # Words that leave three sets open. The companion of the last two has more than half of the probability, but the
    # first set is the best answer: no threshold on single labels finds it, nor does taking the best label first.
    _open(15, SHARED["sport"], "sport rowing award", "sport tennis festival", "sport cycling festival"),
    _open(13, SHARED["food"], "food cheese wine", "food bakery award", "food award"),
    _open(15, SHARED["travel"], "travel railway strike", "travel ferry storm", "travel airport storm"),
    _open(10, SHARED["culture"], "culture theatre", "culture concert festival", "culture museum festival"),
    _open(9, SHARED["nature"], "nature garden drought", "nature river storm", "nature birds storm"),
    _open(9, SHARED["money"], "money housing lawsuit", "money shop strike", "money bank strike"),
    _open(10, "forecast barometer weather radar warning cloud thermometer horizon", "drought", "storm rescue", "storm"),
    # Here one label is sure, and its companion is told by nothing.
    _open(
        16,
        "collision wreck ambulance skid bruise crossroads bumper brake",
        "accident rescue",
        "accident lawsuit",
        "accident",
    ),
    # Events.
    Scene(6, {"rescue": 1.0}, "ladder siren helicopter lifeboat stretcher firefighter rope flare"),
    Scene(8, {"lawsuit": 1.0}, "judge verdict court attorney witness appeal damages jury"),
    Scene(8, {"award": 1.0}, "prize laureate plaque ceremony nominee honour certificate speech"),
    Scene(8, {"storm": 1.0}, "gale thunder lightning gust downpour hail tempest puddle"),
    Scene(4, {"drought": 1.0}, "dust heatwave sprinkler crack shortage reservoir shade bucket"),
    Scene(8, {"strike": 1.0}, "picket walkout union banner megaphone wage negotiator placard"),
    Scene(7, {"festival": 1.0}, "parade lantern firework carnival float balloon confetti tent"),
]

OPENINGS = (
    "On Monday",
    "On Thursday night",
    "Early this morning",
    "After a long week",
    "According to several readers",
    "Shortly before noon",
    "To general surprise",
    "Once again",
    "In the old town",
    "Not far from here",
)
TEMPLATES = (
    "the {} and the {} were the talk of the town",
    "everybody spoke about the {} and the {}",
    "our reporter saw the {} right next to the {}",
    "a photograph of the {} and the {} went around",
    "there were questions about the {} and about the {}",
    "first came the {}, and then the {}",
    "neighbours remembered the {} better than the {}",
    "two visitors mentioned the {} beside the {}",
    "the story of the {} ended with the {}",
    "a letter described the {} and a new {}",
)
FILLERS = (
    "",
    "",
    " More about this in our weekend edition.",
    " The mayor did not wish to comment.",
    " Opinions in the village remain divided.",
    " Nobody expected it to end like this.",
)

NEW_TEXTS = (
    "On Monday the racket and the umpire were the talk of the town.",
    "Early this morning everybody spoke about the train and the locomotive. Once again first came the picket, and then "
    "the megaphone.",
    "After a long week two visitors mentioned the loaf beside the oven. On Thursday night there were questions about "
    "the gale and about the thunder.",
)
EXPECTED = (("sport", "tennis"), ("travel", "railway", "strike"), ("food", "bakery", "storm"))


@dataclass(frozen=True)
class ToyCorpus:
    train: list[Example]
    valid: list[Example]
    test: list[Example]
    labels: list[str]
    parents: dict[str, str]


@dataclass(frozen=True)
class Case:
    """Scenes told together and one label set they may stand for."""

    scenes: tuple[int, ...]
    labels: tuple[str, ...]
    probability: float


def toy_corpus(seed: int = 1, train: int = 4000, valid: int = 500, test: int = 1000) -> ToyCorpus:
    """The parts differ in one thing: some label sets of `valid` and `test` never occur in `train`, however long it is.

    Each part has a random stream of its own, so the size of one does not change the others.
    """
    return ToyCorpus(
        train=list(_examples("train", train, [seed, 0], training=True)),
        valid=list(_examples("valid", valid, [seed, 1])),
        test=list(_examples("test", test, [seed, 2])),
        labels=list(LABELS),
        parents=dict(PARENTS),
    )


def generated_documents(count: int, seed: int = 1) -> Iterator[Example]:
    """Any number of reports like those of the test part, one at a time."""
    return _examples("generated", count, [seed, 3])


def toy_texts() -> list[Example]:
    """Three reports without labels; `EXPECTED` says which they deserve."""
    return [Example(f"new-{number}", text) for number, text in enumerate(NEW_TEXTS)]


@cache
def all_cases() -> tuple[Case, ...]:
    """Everything that can happen in a report. Scenes that share a label agree about it, so one can settle another."""
    cases = []
    for count, share in ((1, ONE_SCENE), (2, 1 - ONE_SCENE)):
        weighted = [(told, *case) for told in combinations(range(len(SCENES)), count) for case in _consistent(told)]
        total = sum(weight for *_, weight in weighted)
        cases += [Case(told, labels, share * weight / total) for told, labels, weight in weighted]
    return tuple(cases)


def _consistent(told: tuple[int, ...]) -> list[tuple[tuple[str, ...], float]]:
    """The label sets these scenes may stand for together, with their weights."""
    scenes = [SCENES[index] for index in told]
    found: list[tuple[tuple[str, ...], float]] = []
    for outcomes in product(*(scene.outcomes.items() for scene in scenes)):
        labels = {label for names, _ in outcomes for label in names.split()}
        agree = all(
            labels & scene.labels() == set(names.split()) for scene, (names, _) in zip(scenes, outcomes, strict=True)
        )
        if agree and len(labels) <= MAX_LABELS and not any(labels.issuperset(pair) for pair in EXCLUSIVE):
            weight = float(np.prod([probability for _, probability in outcomes]))
            found.append((tuple(sorted(labels, key=LABELS.index)), weight))
    told_weight = float(np.prod([scene.weight for scene in scenes]))
    total = sum(weight for _, weight in found)
    return [(labels, told_weight * weight / total) for labels, weight in found]


@cache
def held_back() -> frozenset[tuple[str, ...]]:
    """Label sets of two scenes that training never shows, spread over frequent and rare ones."""
    mass: dict[tuple[str, ...], float] = {}
    for case in all_cases():
        mass[case.labels] = mass.get(case.labels, 0.0) + case.probability
    single = {case.labels for case in all_cases() if len(case.scenes) == 1}
    double = sorted((labels for labels in mass if labels not in single), key=lambda labels: (-mass[labels], labels))
    return frozenset(double[HELD_BACK // 2 :: HELD_BACK])


def _examples(part: str, count: int, seed: list[int], training: bool = False) -> Iterator[Example]:
    generator = np.random.default_rng(seed)
    cases = [case for case in all_cases() if not (training and case.labels in held_back())]
    cumulative = np.cumsum([case.probability for case in cases])
    cumulative /= cumulative[-1]
    pairs = [scene.pairs() for scene in SCENES]
    block = 1024  # numpy draws for many reports at once; whole blocks only, so that more reports begin with the fewer
    for start in range(0, count, block):
        draws = generator.random((block, 9))  # (block, 9)
        chosen = np.searchsorted(cumulative, draws[:, 0], side="right").tolist()
        for number, index, draw in zip(range(start, count), chosen, draws[:, 1:].tolist(), strict=False):
            case = cases[index]
            yield Example(f"{part}-{number}", _report([pairs[scene] for scene in case.scenes], draw), None, case.labels)


def _report(scenes: list[list[tuple[str, str]]], draw: list[float]) -> str:
    """The text: a sentence per scene in any order; each number drawn from [0, 1) makes one choice."""
    if len(scenes) == 1:
        return _sentence(scenes[0], draw[0:3]) + FILLERS[int(draw[7] * len(FILLERS))]
    first, second = scenes if draw[6] < 0.5 else reversed(scenes)
    return f"{_sentence(first, draw[0:3])} {_sentence(second, draw[3:6])}"


def _sentence(pairs: list[tuple[str, str]], draw: list[float]) -> str:
    opening = OPENINGS[int(draw[0] * len(OPENINGS))]
    template = TEMPLATES[int(draw[1] * len(TEMPLATES))]
    return f"{opening} {template.format(*pairs[int(draw[2] * len(pairs))])}."
