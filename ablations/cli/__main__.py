"""`python -m ablations.cli`, where the command is not on the PATH."""

import sys

from ablations.cli import main

sys.exit(main())
