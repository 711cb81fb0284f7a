#include "live/group/process_state.hpp"

#include <fstream>
#include <string>

#include <sys/stat.h>

namespace orrery::live {

bool is_running(std::int64_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::ifstream file(folder + "/stat");
  std::string line;
  if (!std::getline(file, line)) {
    struct stat unknown {};
    return stat("/proc/self/stat", &unknown) != 0;
  }
  // The state is the word after the program's name, which may contain blanks and brackets.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return true;
  const char state = line[name_end + 2];
  return state != 'Z' && state != 'X';
}

}  // namespace orrery::live
