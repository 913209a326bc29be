import sys

from .trial import main

sys.exit(main(sys.argv))
