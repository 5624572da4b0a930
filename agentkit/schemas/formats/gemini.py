"""Gemini's function declarations: a subset of OpenAPI's schema, with what it cannot hold said in the description.

Sources: Gemini API reference, `FunctionDeclaration` and `Schema`: the parser refuses keywords that it does not know
(pizza-bot#62, CLIProxyAPI#97) and lists of types (aoci-code#61), an enum is for strings only (decolua/9router#359) and
has no empty entry (ha-claude#32), an array needs `items`, every schema a type (inspect_ai#3097), on Vertex nothing
stands beside `anyOf` (langchain-google#1216), parameters are `[A-Za-z_][A-Za-z0-9_]{0,63}`, an object at the root has
properties (pipecat-flows#110).  `default` is taken and ignored, so it is said in words.  Through litellm, in OpenAI's
wrapping, this form arrives as it is (facts/litellm.md 3.2).
"""

import re

from .. import inline
from .declaration import Declaration, Loss, Rendering
from .gemini_schema import clean, without_null
from .merging import flattened
from .property_names import aliased
from .rewriting import CONDITIONS, rewritten
from .structure import object_root
from .unrolling import unrolled

KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def gemini(declaration: Declaration) -> Rendering:
    """The function declaration, types in lower case; a function without parameters has none.

    Values of an enum that are no strings are shown as the strings of their JSON: 1 as "1", true as "true".
    """
    losses: list[Loss] = []
    root = flattened(unrolled(object_root(inline(declaration.parameters), losses), losses), losses)
    root, aliases = aliased(root, KEY, losses)
    schema = without_null(rewritten(root, losses, *clean, sealed=CONDITIONS | {"additionalProperties", "allOf"}))
    said = declaration.description
    parameters = {"parameters": schema} if schema.get("properties") else {}
    if not parameters and "description" in schema:  # any keys, say: there is no other place to tell it
        said = f"{said}\n\nArguments: {schema['description']}".strip()
    text = {"description": said} if said else {}
    return Rendering({"name": declaration.name, **text, **parameters}, tuple(losses), aliases)
