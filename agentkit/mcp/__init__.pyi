from . import lock as lock
from .client import MCPServer as MCPServer
from .client import Resource as Resource
from .oauth import StoredLogin as StoredLogin
from .oauth import login as login
from .server import make_app as make_app
from .server import make_server as make_server
from .server import serve as serve
