#include "live/nccl/report_sender.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "core/files/socket_address.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kCollect{5};
constexpr std::size_t kMostBytes = 32 * 1024;  ///< bytes that wait at most; the rest is dropped

}  // namespace

ReportSender::~ReportSender() {
  if (socket_ >= 0) close(socket_);
}

void ReportSender::add_report(const NcclReport& report) {
  if (!has_receiver()) return;
  const std::string line = print_report(report) + '\n';
  const std::lock_guard lock(mutex_);
  if (waiting_.size() + line.size() <= kMostBytes) waiting_ += line;
  if (std::chrono::steady_clock::now() - sent_ >= kCollect) send_waiting();
}

void ReportSender::send_reports() {
  const std::lock_guard lock(mutex_);
  send_waiting();
}

void ReportSender::send_waiting() {
  const auto address = find_socket_address(path_);
  if (waiting_.empty() || !address) return;
  if (socket_ < 0) socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sent_ = std::chrono::steady_clock::now();
  const ssize_t sent = sendto(socket_, waiting_.data(), waiting_.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  if (sent >= 0) waiting_.clear();  // else they wait for the next report
}

}  // namespace orrery::live
