"""What one step sends: gradients of rows and of dense parameters, merged, clipped, in the formats of the job.

Dense parameters are two flat buffers (`flat`); their gradients may leave during backward (`dense_ahead`). Ask for
`gradients.Gradients` and `flat.FlatParameters`.
"""
