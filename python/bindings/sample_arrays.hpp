// Tables of samples for Python: NumPy reads the values of a column in the memory of the column,
// which the array keeps alive and cannot write. GIL held.
#pragma once

#include <pybind11/pybind11.h>

#include "policies/seam/sample_columns.hpp"

namespace orrery::python {

/// Binds the rows and the columns of tables: `memoryview` of a column are its values as doubles,
/// NaN where missing.
void bind_samples(pybind11::module_& module);

}  // namespace orrery::python
