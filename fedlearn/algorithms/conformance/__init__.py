"""Laws of algorithms: what each must do on quadratics, whose rounds can be written down."""
