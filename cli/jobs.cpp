#include "cli/commands.hpp"
namespace orrery::cli {
void add_jobs(CLI::App&, Action&) {}
}
