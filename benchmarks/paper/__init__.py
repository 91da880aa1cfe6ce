"""The experiments of the WLDA paper, run again: every table and figure, beside the published numbers.

Li, Shen, van den Hengel and Shi, "Worst-case linear discriminant analysis as scalable semidefinite
feasibility problems", IEEE Transactions on Image Processing, 2015.

``python -m benchmarks.paper table1 --quick``, from the root of a clone, reproduces Table 1 on two splits;
docs/paper.md shows the results. The modules, in the order in which they build on each other:

* ``protocol``: data sets, splits, preprocessing
* ``competitors``: the methods of other authors, as scikit-learn estimators
* ``methods``: every row of the tables, as a function from labelled samples to a projection
* ``targets``: every table and figure, as rows, columns and numbers of splits
* ``study``: one experiment (a method on a split), and the study of all experiments of the requested tables
* ``summary``: means, deviations, significance, agreement with the published numbers
* ``report``: Markdown, CSV and figures
"""
