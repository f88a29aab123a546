"""Control tasks, language tasks, and tasks that a user registers."""

from ablations.tasks import control as _control  # registers  # noqa: F401
from ablations.tasks import fast as _fast  # registers  # noqa: F401
from ablations.tasks import gymnax as _gymnax  # registers  # noqa: F401
from ablations.tasks import playground as _playground  # registers  # noqa: F401
from ablations.tasks.language import problems as _language  # registers  # noqa: F401
from ablations.tasks.task import Task, register, task, tasks

__all__ = ["Task", "register", "task", "tasks"]
