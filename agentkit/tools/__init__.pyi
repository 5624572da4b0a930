from ..core.portable import truncate as truncate
from ..core.threads import parse_python as parse_python
from ..core.threads import run_within as run_within
