#include "cli/shared/run_orders.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/shared/program_takeover.hpp"
#include "core/error.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kMostOrders = 10000;
constexpr int kMostLooks = 40;  // looks for the answer to an order, live::kLookMs apart

[[noreturn]] void fail_to_leave(const std::string& path) {
  throw Error(ErrorKind::environment,
              fmt::format("cannot leave the order in {}: {}", path, std::strerror(errno)));
}

int make_file(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/// Returns the number of the newest event in the status; 0 without one.
std::uint64_t newest_event(const LiveRun& run) {
  const auto events = run.list("events");
  return events.empty() ? 0 : events.back().value("number", std::uint64_t{0});
}

/// Returns the line of the first event after number `seen` that answers an order: a line that
/// begins with `accepted`, or "an order is refused: SUBJECT: ..."; empty if there is none yet.
std::string answer_about(const LiveRun& run, const std::string& subject,
                         const std::string& accepted, std::uint64_t seen) {
  if (!run.status.is_object()) return {};
  for (const auto& event : run.list("events")) {
    if (event.value("number", std::uint64_t{0}) <= seen) continue;
    const std::string what = event.value("what", "");
    const bool refused = what.starts_with(fmt::format("{}{}:", live::kOrderRefused, subject));
    if (refused || what.starts_with(accepted)) return what;
  }
  return {};
}

}  // namespace

void leave_order(const LiveRun& run, const ordered_json& order) {
  require_watched(run);
  for (int number = 1; number < kMostOrders; ++number) {
    const std::string place =
        fmt::format("{}/{}{:06}{}", run.folder, live::kOrderPrefix, number, live::kOrderSuffix);
    const std::string fresh = place + ".new";
    const int file = make_file(fresh);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) fail_to_leave(fresh);
    const std::string text = order.dump();
    const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    const bool left = written && link(fresh.c_str(), place.c_str()) == 0;  // replaces no file
    const int reason = errno;
    unlink(fresh.c_str());
    errno = reason;
    if (left) return;
    if (errno != EEXIST) fail_to_leave(place);
  }
  throw Error(ErrorKind::environment,
              "the run does not read its orders; is it stopped or "
              "suspended?");
}

void order_and_wait(LiveRun run, const ordered_json& order, const std::string& subject,
                    const std::string& accepted) {
  const std::uint64_t seen = newest_event(run);
  leave_order(run, order);
  std::string said;
  for (int look = 0; said.empty() && look < kMostLooks && run.is_living(); ++look) {
    poll(nullptr, 0, live::kLookMs);
    run.read_status();
    said = answer_about(run, subject, accepted, seen);
  }
  if (said.starts_with(live::kOrderRefused)) {
    throw Error(ErrorKind::usage, said.substr(live::kOrderRefused.size()));
  }
  if (said.empty()) {
    throw Error(ErrorKind::environment,
                fmt::format("expected an answer of run {} within {} s, found none: the run is not "
                            "training or has ended; see orrery status",
                            run.id, kMostLooks * live::kLookMs / 1000));
  }
  fmt::print("run {}: {}\n", run.id, said);
}

bool leave_stop_order(const LiveRun& run, bool checkpoint) {
  require_watched(run);
  const std::string path = run.folder + "/" + live::kStopFile;
  const int file = make_file(path);
  if (file < 0 && errno == EEXIST) return false;
  const std::string how = checkpoint ? "checkpoint\n" : "now\n";
  const bool written =
      file >= 0 && write(file, how.data(), how.size()) == static_cast<ssize_t>(how.size());
  if (file >= 0) close(file);
  if (!written) fail_to_leave(path);
  return true;
}

}  // namespace orrery::cli
