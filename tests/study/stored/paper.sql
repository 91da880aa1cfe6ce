BEGIN TRANSACTION;
CREATE TABLE cells (
    key TEXT PRIMARY KEY, solver TEXT NOT NULL, problem TEXT NOT NULL, seed INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', run INTEGER, taken REAL, finished REAL, attempts INTEGER DEFAULT 0,
    outcome TEXT, verdict TEXT, proof TEXT, margin REAL, claimed TEXT, reason TEXT, explanation TEXT,
    raw_status TEXT, stop TEXT, iterations INTEGER, solve_time REAL, cpu_time REAL, verify_time REAL,
    peak_memory INTEGER, error REAL, lower REAL, upper REAL, info TEXT, log TEXT);
INSERT INTO "cells" VALUES('4c9b43dc1cc6c947fb0eac789d430aef64b6a58ca4e66031b817f1db48492867','a6a4972956881663e9c3a585d657bf1590738b5298578051ae691f1ddaee04b3','4758c427f21bc72710ebc4466690ab455933f4a1a346c01eac3e027cc27d2c56',0,'done',1,1.79484944679347944258e+09,1.79484945010041570655e+09,1,'done','undecided',NULL,NULL,NULL,'','','','',NULL,1.91937399995367741212e-03,5.71309600000002859587e-03,0.0,204324864,4.44444444444444461406e-02,NULL,NULL,'{"finished": true, "ratio": null}','');
INSERT INTO "cells" VALUES('9560fba6119c9a18c0ec680b8b81c888145470e1b5e4029ba55f8a65482618dc','a6a4972956881663e9c3a585d657bf1590738b5298578051ae691f1ddaee04b3','4758c427f21bc72710ebc4466690ab455933f4a1a346c01eac3e027cc27d2c56',1,'done',1,1.79484945060666799547e+09,1.79484945061691355703e+09,1,'done','undecided',NULL,NULL,NULL,'','','','',NULL,5.49946699993597576394e-03,5.12492799999986203829e-03,0.0,209059840,6.66666666666666657414e-02,NULL,NULL,'{"finished": true, "ratio": null}','');
INSERT INTO "cells" VALUES('0ed81a2202b1ef1386ec93d5d8ed6155546dd3fd9f9b1ee9512cf01c079071d6','1a6fd4ff3e837fc7abbc08be452eb73ea21af666bb13f0757dcb1057e7734b38','4758c427f21bc72710ebc4466690ab455933f4a1a346c01eac3e027cc27d2c56',0,'done',1,1.79484945010087227823e+09,1.79484945039065170281e+09,1,'done','bracket','rigorous',NULL,NULL,'the bracket is within the tolerance','','','',NULL,5.96360400002140522701e-02,0.0331959369999999,0.0,209059840,4.44444444444444461406e-02,9.5306907018459448011e+00,9.53144274934671820176e+00,'{"finished": true, "ratio": 9.530828043345329}','');
INSERT INTO "cells" VALUES('0cfb6aa968d68d8975a5a5147b0949317250594b92f3f1f65bfdf050a6fb7cf4','1a6fd4ff3e837fc7abbc08be452eb73ea21af666bb13f0757dcb1057e7734b38','4758c427f21bc72710ebc4466690ab455933f4a1a346c01eac3e027cc27d2c56',1,'done',1,1.79484945039084553717e+09,1.7948494506065294742e+09,1,'done','bracket','rigorous',NULL,NULL,'the bracket is within the tolerance','','','',NULL,2.06523707000087597407e-01,1.05958916999999708252e-01,0.0,209059840,6.66666666666666657414e-02,1.27512116155461718847e+01,1.27542638959207046414e+01,'{"finished": true, "ratio": 12.751709281719581}','');
CREATE TABLE evidence (cell TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "meta" VALUES('version','1');
CREATE TABLE plan (
    solver TEXT NOT NULL, problem TEXT NOT NULL, seed INTEGER NOT NULL, cell TEXT NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY (solver, problem, seed));
INSERT INTO "plan" VALUES('lda','iris',0,'4c9b43dc1cc6c947fb0eac789d430aef64b6a58ca4e66031b817f1db48492867',0);
INSERT INTO "plan" VALUES('lda','iris',1,'9560fba6119c9a18c0ec680b8b81c888145470e1b5e4029ba55f8a65482618dc',1);
INSERT INTO "plan" VALUES('wlda','iris',0,'0ed81a2202b1ef1386ec93d5d8ed6155546dd3fd9f9b1ee9512cf01c079071d6',2);
INSERT INTO "plan" VALUES('wlda','iris',1,'0cfb6aa968d68d8975a5a5147b0949317250594b92f3f1f65bfdf050a6fb7cf4',3);
CREATE TABLE problems (
    key TEXT NOT NULL, label TEXT NOT NULL, name TEXT NOT NULL, parameters TEXT NOT NULL, kind TEXT NOT NULL,
    rows INTEGER NOT NULL, size INTEGER NOT NULL, summary TEXT NOT NULL, card TEXT NOT NULL,
    PRIMARY KEY (key, label));
INSERT INTO "problems" VALUES('4758c427f21bc72710ebc4466690ab455933f4a1a346c01eac3e027cc27d2c56','iris','iris','{"dataset": "iris", "share": 0.7, "by_class": false, "first_class": 0, "classes": null, "features": null, "preprocessing": "none", "pca": null, "components": null}','experiment',105,4,'105 trained on, 45 tested, 4 dimensions','');
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born REAL NOT NULL,
    started REAL NOT NULL, seen REAL NOT NULL, finished REAL,
    command TEXT NOT NULL, settings TEXT NOT NULL, environment TEXT NOT NULL);
INSERT INTO "runs" VALUES(1,'elsewhere',13777,1794849437.66,1.79484944679186153408e+09,1.79484944679186153408e+09,1.79484945066408038139e+09,'sdpfeas paper table1','{"time_limit": 60.0, "memory_limit": 4294967296, "threads": 1, "rigorous": false, "tol": 0.001}','{"host":"elsewhere","system":"Linux-6.18.44-fc-v445-x86_64-with-glibc2.36","cpu":"AMD EPYC","cores":2,"memory":25274793984,"versions":{"python":"3.11.7","sdpfeas":"0.1.0","numpy":"2.4.6","scipy":"1.17.1","cvxpy":"1.9.3","clarabel":"0.11.1","scs":"3.3.1"},"blas":"scipy-openblas 0.3.31.188.0","revision":"d81cdf0"}');
CREATE TABLE solvers (
    key TEXT PRIMARY KEY, name TEXT NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL,
    options TEXT NOT NULL, source TEXT NOT NULL, card TEXT NOT NULL);
INSERT INTO "solvers" VALUES('a6a4972956881663e9c3a585d657bf1590738b5298578051ae691f1ddaee04b3','lda','experiment','0.1.0','{"settings": "total scatter where the within-class one is singular"}','sdpfeas.wlda.paper.methods','');
INSERT INTO "solvers" VALUES('1a6fd4ff3e837fc7abbc08be452eb73ea21af666bb13f0757dcb1057e7734b38','wlda','experiment','0.1.0','{"settings": "tolerance 0.001"}','sdpfeas.wlda.paper.methods','');
CREATE INDEX cells_by_state ON cells (state);
COMMIT;
