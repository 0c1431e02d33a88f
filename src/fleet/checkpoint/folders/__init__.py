"""A checkpoint's folder: begun, written into by many, committed or given up; and the manifest, which comes last.

Ask for `folder` and `manifest.Manifest`.
"""
