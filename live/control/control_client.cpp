#include "live/control/control_client.hpp"

#include <mutex>
#include <optional>

#include <grpcpp/grpcpp.h>

#include "live/control.grpc.pb.h"
#include "live/control/protocol.hpp"
#include "live/transport/credentials.hpp"

namespace orrery::live {

struct ControlClient::Impl {
  std::string address;
  Secrets secrets;
  AgentMessage hello;
  std::unique_ptr<Control::Stub> stub;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::ClientReaderWriter<AgentMessage, ControllerMessage>> stream;
  std::mutex writing;

  void open() {
    stream.reset();
    context.emplace();
    secrets = newest(secrets);
    stub = Control::NewStub(open_channel(address, secrets, kMostControlBytes));
    stream = stub->Session(&*context);
    stream->Write(hello);
  }
};

ControlClient::ControlClient(const std::string& address, const Secrets& secrets, const Hello& hello)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = address;
  impl_->secrets = secrets;
  *impl_->hello.mutable_hello() = hello;
  impl_->open();
}

ControlClient::~ControlClient() { impl_->context->TryCancel(); }

std::optional<ControllerMessage> ControlClient::read() {
  ControllerMessage message;
  if (!impl_->stream->Read(&message)) return std::nullopt;
  return message;
}

bool ControlClient::send_message(const AgentMessage& message) {
  const std::scoped_lock lock(impl_->writing);
  return impl_->stream->Write(message);
}

void ControlClient::reopen_stream(const std::function<std::vector<AgentMessage>()>& first) {
  impl_->context->TryCancel();  // a blocked write of another thread returns
  const std::scoped_lock lock(impl_->writing);
  impl_->stream->Finish();
  impl_->open();
  for (const AgentMessage& message : first()) impl_->stream->Write(message);
}

void ControlClient::finish_stream() {
  const std::scoped_lock lock(impl_->writing);
  impl_->stream->WritesDone();
}

}  // namespace orrery::live
