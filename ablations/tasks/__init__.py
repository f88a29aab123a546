"""Control tasks, language tasks, and tasks that a user registers."""

from ablations.tasks import control, gymnax, playground  # register tasks
from ablations.tasks.language import problems  # registers tasks
from ablations.tasks.task import Task, register, task, tasks
