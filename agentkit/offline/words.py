"""Words made comparable: stems, the words that say nothing, and the words that hint at a kind of parameter."""

import re
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|\d+(?:\.\d+)?|[^\w\s]")
_SUFFIXES = tuple("ations ation ators ator ating ated ates ate ions ion ings ing ments ment ies ied ie ers ors er or 's ’s es ed ly s y e".split())
_DOUBLED = re.compile(r"([^aeiou])\1$")
_SHORT = {"stats": "statistics", "temp": "temperature", "avg": "average", "info": "information", "num": "number"}
_AGENT = frozenset("ers ors er or".split())

STOP = frozenset(
    "a an the and or but nor so of in on at to from by with for about as into onto over under between through during per "
    "via near around within than then also too is are was were be been being am do does did done has have had having will "
    "would can could should shall may might must i me my mine you your we us our they them their he him his she her it its "
    "this that these those there here what which who whom whose when where why how much many if whether not no yes please "
    "kindly just only like both each every all any some such more most other another using use used based given lets let "
    "i'm i'd i'll i've it's what's who's where's let's that's let’s what’s i’m and/or up out s t ll re ve d m "
    "want need wanted needed know tell give show find get help me look looking calculate compute determine provide fetch "
    "retrieve search check list make find out could hello hi hey thanks thank okay ok now today's after "
    "before since until above below against along across toward towards upon without including include regarding "
    "concerning respectively following same different well first second third finally lastly additionally "
    "called named titled written saying located according found took taken go going made makes doing happens happened "
    "terms way says said assistance interested learn needs wants seeking planning trying".split()
)
"""Words that neither name a task nor are a value."""

IMPERATIVES = frozenset(
    "add analyze apply arrange ask assign book buy call change choose clear close compare compose convert cook count cover "
    "create cut decrease define delete describe design detect display divide do download draft draw drop edit enable end "
    "enter estimate evaluate examine execute explain extract fill filter fix forecast generate go grab greet identify "
    "implement increase insert install integrate invite join launch look make measure modify move multiply name notify "
    "obtain open optimize order organize pause pay perform pick plan play plot predict prepare print process publish put "
    "query read recommend record register remind remove rename render repeat replace report request reserve reset resize "
    "resolve return review roll run sail save scan schedule select sell send set share simulate sing solve sort start stop "
    "store subtract suggest summarize switch take test toggle track transfer translate trigger turn update upload verify "
    "view visit watch write rewind retrieve".split()
)
"""Words that open a request; at the head of a sentence they are never a name."""

GENERIC = frozenset(
    "set get find calculate compute determine search fetch retrieve show list give check make tool function api data info "
    "information details value values number result results return returns returned given specific specified based "
    "using use name type id provide provided default format parameter optional required can be used etc include includes including want show description fact".split()
)
"""Words of tool names and descriptions that tell little about what a tool is for."""

_SYNONYMS = (
    "weather forecast climate|buy purchase order shop|movie film cinema|song track tune|hotel accommodation lodging|"
    "flight fly plane airline|trip travel journey itinerary|photo image picture pic|email mail|price cost fee|"
    "speed velocity fast|distance far|height tall high|length long|width wide breadth|depth deep|weight mass heavy|create generate build produce make write|"
    "delete remove erase|convert conversion exchange translate|schedule book reserve booking reservation appointment|"
    "car vehicle automobile|restaurant dining eat|team club|doctor physician|lawyer attorney|stock share|"
    "company firm business corporation|law legal|author writer wrote written|begin start|end finish|min minimum least "
    "lowest|max maximum highest|location place where loc|city town|date when day|lat latitude|"
    "lon lng longitude|quantity qty count|average mean|people person guest|near nearby nearest closest|"
    "predict prediction forecast|game match|recommend suggest recommendation|multiply product multiplication|add "
    "sum total addition plus|subtract minus difference|divide quotient division|job position employment career|"
    "play music|medicine drug medication|definition meaning define mean|currency money|route directions direction|"
    "update modify change edit|power exponent|number num|spouse wife husband|language lang|genre style|old age"
)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A word cut to what its inflections share: `calculate`, `calculation` and `calculators` are `calcul`."""
    word = word.lower()
    suffix = next((s for s in _SUFFIXES if word.endswith(s) and len(word) - len(s) >= (4 if s in _AGENT else 3)), "")
    return _DOUBLED.sub(r"\1", word.removesuffix(suffix))[:6]


_CANONICAL = {stem(word): stem(group.split()[0]) for group in _SYNONYMS.split("|") for word in group.split()}
_GENERIC_STEMS = frozenset(
    {_CANONICAL.get(stem(w), stem(w)) for w in GENERIC} | {stem(w) for w in STOP if stem(w) not in _CANONICAL}
)


def concept(word: str) -> str:
    """The stem of a word, or the one that stands for all its synonyms."""
    cut = stem(_SHORT.get(word.lower(), word))
    return _CANONICAL.get(cut, cut)


ROLES = frozenset(map(concept, "from to start end first second third before after min max since until".split()))
"""Concepts that say little about a tool but much about a parameter."""


def is_generic(concept_: str) -> bool:
    """Whether a concept says too little to choose a tool or a parameter by."""
    return concept_ in _GENERIC_STEMS


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number or sign of a text, where it stands there, and what it is compared by."""

    text: str
    start: int
    end: int
    concept: str


def tokens(text: str) -> list[Token]:
    """The words, numbers and signs of `text`, in order."""
    return [Token(m[0], m.start(), m.end(), concept(m[0])) for m in _TOKEN.finditer(text)]


@lru_cache(maxsize=2048)
def concepts(text: str) -> tuple[str, ...]:
    """The concepts of a name or description, without doubles; `snake_case`, `camelCase` and `dotted.names` are split."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ")
    return tuple(dict.fromkeys(t.concept for t in tokens(spaced) if t.text[0].isalnum()))
