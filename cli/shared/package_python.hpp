// Python that has the package orrery, for commands that start a Python process beside them. One
// thread.
#pragma once

#include <string>

namespace orrery::cli {

/// Python interpreter and the folder from which it imports the package.
struct PackagePython {
  std::string interpreter;  ///< ORRERY_PYTHON, the Python of the build, or python3 of PATH
  std::string folder;       ///< folder that contains the package of this program; empty: unknown
};

/// Returns the Python of ORRERY_PYTHON, of the build, or of PATH. Does not check that it exists.
PackagePython package_python();

}  // namespace orrery::cli
