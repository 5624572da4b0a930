"""Tools made of the operations of an OpenAPI document: reading the document, the schemas, the HTTP requests."""
