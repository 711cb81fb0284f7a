#include "cli/shared/slurm_session.hpp"

#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace orrery::cli {
namespace {

volatile std::sig_atomic_t stop_seen = 0;

}  // namespace

std::string clock_time(Nanos at) {
  return fmt::format("{:%H:%M:%S}", fmt::localtime(static_cast<std::time_t>(at / kNanosPerSecond)));
}

StopSignals::StopSignals() {
  stop_seen = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { stop_seen = 1; };
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopSignals::is_stopped() { return stop_seen != 0; }

}  // namespace orrery::cli
