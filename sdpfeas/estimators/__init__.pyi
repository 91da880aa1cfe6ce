"""The estimators and where each is defined; imported when it is first used."""

from .fair_pca import FairPCA as FairPCA
from .max_min_distance import MaxMinDistance as MaxMinDistance
from .worst_case_lda import WorstCaseLDA as WorstCaseLDA
