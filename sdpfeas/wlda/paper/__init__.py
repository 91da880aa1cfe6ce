"""The experiments of the WLDA paper, run again: every table and figure, beside the published numbers.

Li, Shen, van den Hengel and Shi, "Worst-case linear discriminant analysis as scalable semidefinite
feasibility problems", IEEE Transactions on Image Processing, 2015. ``sdpfeas paper`` is the way in.
"""
