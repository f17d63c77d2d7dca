"""How much is tried: `quick` with every change, `deep` (`make fuzz`, or HYPOTHESIS_PROFILE=deep) 2,000 a dialect."""

import os
from typing import Final

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("deep", settings.get_profile("quick"), max_examples=2000)
FUZZED: Final = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
