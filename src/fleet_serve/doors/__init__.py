"""How a served model is asked: by gRPC (`grpc_door`) and by HTTP with JSON (`http_door`), both for `answers`.

`answers` refuses what cannot be asked, in one line, and counts; `figures` shows the counts to Prometheus.
"""
