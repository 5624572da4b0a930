from .client import Client as Client
from .client import Workers as Workers
from .handle import RunHandle as RunHandle
from .handle import RunStatus as RunStatus
from .processes import Processes as Processes
from .worker import Worker as Worker
