"""Where a worker is in its script, so that its next life goes on from the same moment.

`progress` is stored with every push; `answer_file`, `inputs` and `redo` let a last step be made again as it was;
`carried` knows how far back that goes.
`runtime.modules.joined` puts together where a new life goes on. Ask for `progress.ScriptProgress`.
"""
