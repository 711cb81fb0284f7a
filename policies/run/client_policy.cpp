#include "policies/run/client_policy.hpp"

#include <poll.h>

#include "core/error.hpp"
#include "core/process.hpp"
#include "policies/handover/fallback.hpp"

namespace orrery {
namespace {

[[noreturn]] void report_end() {
  throw Error(ErrorKind::environment, "the program that started this run is gone");
}

}  // namespace

void send_to_client(const WorkerMessage& message) {
  if (!write_message(kChildDescriptor, message.SerializeAsString())) report_end();
}

bool ClientInbox::has_message(int wait_ms) {
  pollfd channel{kChildDescriptor, POLLIN, 0};
  return poll(&channel, 1, wait_ms) == 1;
}

std::optional<PolicyAnswer> ClientInbox::read_answer() {
  if (!read_message(kChildDescriptor, bytes_)) report_end();
  PolicyAnswer message;
  ensure(message.ParseFromString(bytes_), "a client sends PolicyAnswers");
  if (!message.has_verdict()) return message;
  const ApprovalVerdict& verdict = message.verdict();
  verdicts_.push_back(
      {verdict.decision(), verdict.accepted(), verdict.reason(), verdict.unanswered()});
  return std::nullopt;
}

void ClientChannel::send_message(const WorkerMessage& message) {
  message.SerializeToString(&bytes_);
  if (!write_message(kChildDescriptor, bytes_)) report_end();
}

PolicyAnswer ClientChannel::receive_answer() {
  std::optional<PolicyAnswer> answer;
  try {
    meter_.await_answer([&](int wait_ms) {
      if (ClientInbox::has_message(wait_ms)) answer = inbox_.read_answer();
      return answer.has_value();
    });
  } catch (const PolicyGivenUp&) {
    WorkerMessage message;
    message.set_withdrawn(true);
    write_message(kChildDescriptor, message.SerializeAsString());
    throw;
  }
  return std::move(*answer);
}

}  // namespace orrery
