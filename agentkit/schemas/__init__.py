"""From a callable or a type to plain JSON Schema (draft 2020-12), and from arguments to a call.

Rendering a schema for one provider is in `formats/`.  Tools, the loop and models do not belong here.
"""
