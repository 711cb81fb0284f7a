#include "live/nccl/report_receiver.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/files/socket_address.hpp"

namespace orrery::live {
namespace {

constexpr std::size_t kLargestDatagram =
    64 * 1024;  ///< twice the largest datagram of report_sender

}  // namespace

ReportReceiver::ReportReceiver(const std::string& path) : path_(path) {
  const sockaddr_un address = socket_address(path);
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return;
  const std::string problem = std::strerror(errno);
  close(socket_);
  throw Error(ErrorKind::environment, fmt::format("{}: cannot receive: {}", path, problem));
}

ReportReceiver::~ReportReceiver() {
  close(socket_);
  unlink(path_.c_str());
}

std::vector<NcclReport> ReportReceiver::drain_reports() {
  std::vector<NcclReport> reports;
  std::string bytes(kLargestDatagram, '\0');
  for (ssize_t count = 0; (count = recv(socket_, bytes.data(), bytes.size(), 0)) > 0;) {
    std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (const auto report = parse_report(text.substr(0, end))) reports.push_back(*report);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return reports;
}

}  // namespace orrery::live
