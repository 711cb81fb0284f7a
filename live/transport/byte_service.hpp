// A gRPC service with one method, a stream in both directions, of which what comes in stays bytes:
// whoever serves it weighs a message before reading it, and says what is wrong with one. gRPC's own
// limit would look like the end of the stream, and so be in no log; it too weighs a message only
// once all of it is here. The control plane and the data plane are such services. `serve` is called
// from gRPC's threads, once for each stream; the stream ends when it returns.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/sync_stream.h>

namespace orrery::live {

/// For listen(): the service weighs messages itself.
inline constexpr int kNoLimitOfGrpc = -1;

/// `Answer`: the messages that go out.
template <class Answer>
class ByteService : public grpc::Service {
 public:
  using Stream = grpc::ServerReaderWriter<Answer, grpc::ByteBuffer>;
  using Serve = std::function<grpc::Status(grpc::ServerContext& context, Stream& stream)>;

  /// `method`: "/package.Service/Method", which has to outlive this.
  ByteService(const char* method, Serve serve) {
    using Handler = grpc::internal::BidiStreamingHandler<ByteService, grpc::ByteBuffer, Answer>;
    // As generated code does, whose services that are not asynchronous have messages only.
    AddMethod(new grpc::internal::RpcServiceMethod(  // the service owns it
        method, grpc::internal::RpcMethod::BIDI_STREAMING,
        new Handler([serve = std::move(serve)](ByteService*, grpc::ServerContext* context,
                                               Stream* stream) { return serve(*context, *stream); },
                    this)));
  }
};

/// The next message of a service's stream, which `parse(wire)` takes apart. False: the stream has
/// ended, or what came is larger than `most_bytes` or no message; `why` says so then.
template <class Stream, class Parse>
bool read_message(Stream& stream, std::size_t most_bytes, const Parse& parse, const char*& why) {
  grpc::ByteBuffer wire;
  if (!stream.Read(&wire)) return false;
  if (wire.Length() > most_bytes) {
    why = "its message is too large";
  } else if (!parse(wire)) {
    why = "its message cannot be read";
  }
  return why == nullptr;
}

}  // namespace orrery::live
