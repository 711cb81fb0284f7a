// Parts of the commands that run users' PyTorch programs (rehearse, run): the place of Orrery's
// Python part, its attachment, the program's executable. One thread.
#pragma once

#include <filesystem>
#include <string>

namespace orrery::cli {

/// Exit code of a program that the shell could not find.
inline constexpr int kProgramNotFound = 127;

/// Returns the folder of the Python part: in the package that contains this program, or beside the
/// program in a build folder. Throws an environment Error if neither exists.
std::filesystem::path programs_folder();

/// Returns the folder with the C++ sources of the fault-tolerant process group, which the user's
/// compiler builds against the user's PyTorch. Throws an environment Error if it is missing.
std::filesystem::path native_sources_folder();

/// Returns the path of an executable by the rules of a shell; empty if none exists.
std::string executable_named(const std::string& name);

/// Sets a variable of this process's environment, which children inherit.
void set_variable(const char* name, const std::string& value);

/// Puts the folder through which every Python attaches Orrery before the others in PYTHONPATH.
void attach_through_path(const std::filesystem::path& programs);

/// Descriptor 1 as a copy of descriptor 2, so that the JSON object is alone on the standard output.
class StandardOutputAside {
 public:
  /// Replaces descriptor 1 until the destructor; does nothing unless `wanted`.
  explicit StandardOutputAside(bool wanted);
  ~StandardOutputAside();
  StandardOutputAside(const StandardOutputAside&) = delete;
  StandardOutputAside& operator=(const StandardOutputAside&) = delete;

 private:
  int saved_ = -1;
};

}  // namespace orrery::cli
