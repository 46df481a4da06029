"""`python -m onnxruntime_ep_tunableop`: the command `tunableop`."""

import sys

from .cli import main

sys.exit(main())
