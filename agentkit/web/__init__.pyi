from .app import agui as agui
from .app import serve as serve
from .app import web_app as web_app
