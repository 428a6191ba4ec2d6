//! Pure decisions over numbers: cache replacement, control, scheduling. No I/O, no clocks.
