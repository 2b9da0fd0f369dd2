from .flows.comparison import comparison as comparison
from .flows.feature_selection import feature_selection as feature_selection
from .storage.errors import InputError as InputError
from .storage.errors import StorageError as StorageError
from .tasks.compare import compare as compare
from .tasks.comparing.result import ComparisonResult as ComparisonResult
from .tasks.comparing.settings import ComparisonSettings as ComparisonSettings
from .tasks.given_model import masked_loss as masked_loss
from .tasks.mask_settings import AfsBm as AfsBm
from .tasks.mask_settings import Flbmo as Flbmo
from .tasks.mask_settings import Gbmo as Gbmo
from .tasks.refit_settings import ParticleSwarm as ParticleSwarm
from .tasks.refit_settings import Rfe as Rfe
from .tasks.refit_settings import Rfecv as Rfecv
from .tasks.refit_settings import Sequential as Sequential
from .tasks.reproduce import reproduce as reproduce
from .tasks.reproducing.outcome import Reproduction as Reproduction
from .tasks.result import SelectionResult as SelectionResult
from .tasks.result import load_run as load_run
from .tasks.select import select as select
from .tasks.settings import ColumnSettings as ColumnSettings
from .tasks.settings import ExecutionSettings as ExecutionSettings
from .tasks.settings import ModelSettings as ModelSettings
from .tasks.settings import Ranking as Ranking
from .tasks.settings import SelectionSettings as SelectionSettings

__version__: str
