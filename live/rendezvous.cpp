#include "live/rendezvous.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "live/rank/agent.hpp"
#include "live/run/files/run_folder.hpp"
#include "live/run/requirements.hpp"
#include "live/transport/credentials.hpp"
#include "traces/scenario.pb.h"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPatience{60'000};
constexpr std::chrono::milliseconds kPatienceAgain{20'000};
constexpr std::chrono::milliseconds kPauseAgain{1'000};  // The old controller may still end.
constexpr std::chrono::milliseconds kAttempt{1'000};
constexpr std::chrono::milliseconds kPause{100};
constexpr const char* kAddressFile = "controller";
constexpr const char* kMark = "made-by-the-run";
constexpr const char* kFiles[] = {"token", "ca.pem", "certificate.pem", "key.pem", kMark};

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found look_up(const std::string& host, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  wanted.ai_flags = flags;
  addrinfo* found = nullptr;
  const bool bracketed = host.starts_with('[');
  const std::string name = bracketed ? host.substr(1, host.size() - 2) : host;
  const int problem = getaddrinfo(name.c_str(), "1", &wanted, &found);
  if (problem == 0) return {found, freeaddrinfo};
  throw Error(ErrorKind::environment,
              fmt::format("cannot find the host '{}': {}", host, gai_strerror(problem)));
}

/// Connecting a datagram socket sends nothing: it only asks for the route.
std::string source_towards(const addrinfo& target) {
  const int probe = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  char name[NI_MAXHOST] = "";
  const bool known = probe >= 0 && connect(probe, target.ai_addr, target.ai_addrlen) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), size, name, sizeof name,
                                 nullptr, 0, NI_NUMERICHOST) == 0;
  if (probe >= 0) close(probe);
  if (!known) return {};
  return target.ai_family == AF_INET6 ? fmt::format("[{}]", name) : name;
}

/// The rest of a killed run is one line with a port at its end; any other content is the user's.
void check_address_file(const std::string& path) {
  std::error_code absent;
  const auto status = fs::symlink_status(path, absent);
  if (!fs::exists(status)) return;
  std::string line, more;
  std::ifstream file;
  if (fs::is_regular_file(status)) file.open(path);
  const bool one_line = std::getline(file, line) && !std::getline(file, more);
  const std::size_t colon = line.rfind(':');
  if (one_line && colon != std::string::npos && colon + 1 < line.size() &&
      line.find_first_not_of("0123456789", colon + 1) == std::string::npos) {
    return;
  }
  throw Error(ErrorKind::environment,
              fmt::format("expected the address that a run has left in {}, got another file: "
                          "remove it or name another folder",
                          path));
}

std::string read_address(const std::string& folder) {
  std::ifstream file(folder + "/" + kAddressFile);
  std::string address;
  std::getline(file, address);
  return address;
}

}  // namespace

std::string address_towards(const std::string& host) {
  const Found found = look_up(host, 0);
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (std::string own = source_towards(*each); !own.empty()) return own;
  }
  throw Error(ErrorKind::environment, fmt::format("there is no way to the host '{}'", host));
}

std::string host_of(const std::string& address) { return address.substr(0, address.rfind(':')); }

MeetingPoint::MeetingPoint(const Rendezvous& rendezvous, bool encrypted)
    : folder_(rendezvous.secrets()) {
  std::error_code problem;
  made_folder_ = fs::create_directories(folder_, problem);
  if (made_folder_) {
    fs::permissions(folder_, fs::perms::owner_all, problem);
    remove_on_signal(folder_);
  }
  check_private(folder_);  // checks before any file is written that others might read
  check_address_file(folder_ + "/" + kAddressFile);
  if (fs::exists(folder_ + "/" + kMark, problem)) {  // left by a killed run
    for (const char* file : kFiles) fs::remove(folder_ + "/" + file, problem);
  }
  made_secrets_ = !fs::exists(folder_ + "/token", problem);
  if (made_secrets_) {
    authority_.emplace(encrypted);
    write_secrets(authority_->issue_secrets(), folder_);
    write_private(folder_ + "/" + kMark, "\n");
  }
  secrets_ = read_secrets(folder_, encrypted);
  host_ = address_towards(rendezvous.listen());
  controller_ = rendezvous.controller().empty() ? host_ + ":0" : rendezvous.controller();
}

MeetingPoint::~MeetingPoint() {
  std::error_code ignored;
  fs::remove(folder_ + "/" + kAddressFile, ignored);
  if (made_secrets_) {
    for (const char* file : kFiles) fs::remove(folder_ + "/" + file, ignored);
  }
  if (!made_folder_) return;
  fs::remove(folder_, ignored);
  keep_on_signal(folder_);
}

void MeetingPoint::announce_address(const std::string& address) {
  const std::string path = folder_ + "/" + kAddressFile;
  std::error_code problem;
  fs::remove(path + ".new", problem);
  write_private(path + ".new", address + "\n");
  fs::rename(path + ".new", path, problem);  // whole or not at all
  if (!problem) return;
  throw Error(ErrorKind::environment, fmt::format("cannot write {}: {}", path, problem.message()));
}

AgentStart await_controller(const Rendezvous& rendezvous, bool encrypted,
                            std::chrono::milliseconds patience) {
  const std::string& folder = rendezvous.secrets();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string why = "the folder contains no address of a controller";
  do {
    const std::string& given = rendezvous.controller();
    const std::string address = given.empty() ? read_address(folder) : given;
    try {
      if (!address.empty()) {
        why = fmt::format("no process of this run answers at {}", address);
        if (can_connect(address, read_secrets(folder, encrypted), kAttempt)) {
          const std::string& listen = rendezvous.listen();
          AgentStart start;
          start.set_secrets(folder);
          start.set_tls(encrypted);
          start.set_controller_address(address);
          start.set_data_address(address_towards(listen.empty() ? host_of(address) : listen) +
                                 ":0");
          start.set_ranks(rendezvous.ranks());
          // Grows from process to process of a rank, whoever starts them.
          start.set_life(static_cast<std::uint32_t>(std::time(nullptr)));
          return start;
        }
      }
    } catch (const Error& error) {  // secrets that are being written
      why = error.message();
    }
    std::this_thread::sleep_for(kPause);
  } while (std::chrono::steady_clock::now() < deadline);
  throw Error(ErrorKind::environment,
              fmt::format("rank {} has not found the controller through {}: {}", rendezvous.rank(),
                          folder, why));
}

int run_join(bool again) {
  RunRequest request;
  const auto bytes = read_message(kChildDescriptor);
  if (!bytes || !request.ParseFromString(*bytes)) {
    throw Error(ErrorKind::usage, "`orrery-live join` is started by `orrery live --rendezvous`");
  }
  check_request(request);  // same check as rank 0
  if (again) std::this_thread::sleep_for(kPauseAgain);
  const Rendezvous& rendezvous = request.rendezvous();
  const AgentStart start = await_controller(rendezvous, request.scenario().live().tls(),
                                            again ? kPatienceAgain : kPatience);
  return run_agent(rendezvous.rank(), start);
}

}  // namespace orrery::live
