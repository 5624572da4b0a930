from .agent import EditorAgent as EditorAgent
from .agent import serve as serve
