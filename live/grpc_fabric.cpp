#include "live/grpc_fabric.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include "core/error.hpp"
#include "live/data.grpc.pb.h"
#include "live/ring.hpp"
#include "live/token.hpp"

namespace orrery::live {
namespace {

std::uint64_t clock_nanos() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

}  // namespace

struct GrpcFabric::Impl : public Neighbours, public Neighbour::Service {
  Impl(std::uint32_t own_rank, std::uint32_t world, std::string secret)
      : rank(own_rank), ranks(world), token(std::move(secret)), ring(*this, rank, ranks) {}
  ~Impl() override;

  grpc::Status Link(grpc::ServerContext* link,
                    grpc::ServerReaderWriter<Pong, Piece>* stream) override;
  bool admit(const Piece& first);
  void serve(grpc::ServerReaderWriter<Pong, Piece>& stream);
  void send(std::uint64_t tag, std::string_view bytes) override;
  std::string receive(std::uint64_t tag) override;
  void write(const Piece& piece);
  void read_pongs();
  void break_links(const std::string& reason);
  std::string reason();
  std::uint32_t previous() const { return (rank + ranks - 1) % ranks; }

  const std::uint32_t rank, ranks;
  const std::string token;
  Ring ring;
  std::unique_ptr<grpc::Server> server;

  std::mutex mutex;  // of the six below
  std::condition_variable changed;
  std::deque<Piece> incoming;           // data pieces of the previous rank
  std::set<grpc::ServerContext*> open;  // links from others, to be cancelled
  bool linked = false;                  // the previous rank's link is here
  bool calling = false;                 // our link to the next rank may be cancelled
  std::string broken;                   // why; empty while whole

  std::atomic<double> round_trip_s{0};
  std::unique_ptr<Neighbour::Stub> stub;
  grpc::ClientContext call;
  std::unique_ptr<grpc::ClientReaderWriter<Piece, Pong>> next;
  std::jthread pong_reader;
};

GrpcFabric::Impl::~Impl() {
  break_links("this rank has closed its links");
  if (pong_reader.joinable()) pong_reader.join();
  if (next) next->Finish();
  if (server) server->Shutdown(std::chrono::system_clock::now());
  const std::scoped_lock lock(mutex);  // whoever served a link has let go of what goes away now
}

/// Only the previous rank may link, and only once: a second link would mix its pieces in.
bool GrpcFabric::Impl::admit(const Piece& first) {
  if (!first.has_hello() || !same_token(first.hello().token(), token)) return false;
  const std::scoped_lock lock(mutex);
  if (first.hello().rank() != previous() || linked) return false;
  linked = true;
  return true;
}

void GrpcFabric::Impl::serve(grpc::ServerReaderWriter<Pong, Piece>& stream) {
  Piece piece;
  while (stream.Read(&piece)) {
    if (piece.kind_case() == Piece::kPing) {
      Pong pong;
      pong.set_ping(piece.ping());
      stream.Write(pong);
    } else if (piece.kind_case() == Piece::kData) {
      const std::scoped_lock lock(mutex);
      incoming.push_back(std::move(piece));
      changed.notify_all();
    }
  }
}

grpc::Status GrpcFabric::Impl::Link(grpc::ServerContext* link,
                                    grpc::ServerReaderWriter<Pong, Piece>* stream) {
  {
    const std::scoped_lock lock(mutex);
    if (!broken.empty()) return {grpc::StatusCode::ABORTED, broken};
    open.insert(link);
  }
  Piece first;
  const bool admitted = stream->Read(&first) && admit(first);
  if (admitted) serve(*stream);
  {
    const std::scoped_lock lock(mutex);
    open.erase(link);
  }
  if (!admitted) return {grpc::StatusCode::PERMISSION_DENIED, "not a neighbour of this run"};
  break_links(fmt::format("rank {} closed its link", previous()));
  return grpc::Status::OK;
}

void GrpcFabric::Impl::break_links(const std::string& why) {
  const std::scoped_lock lock(mutex);
  if (!broken.empty()) return;
  broken = why;
  for (grpc::ServerContext* link : open) link->TryCancel();
  if (calling) call.TryCancel();
  changed.notify_all();
}

std::string GrpcFabric::Impl::reason() {
  const std::scoped_lock lock(mutex);
  return broken;
}

void GrpcFabric::Impl::write(const Piece& piece) {
  if (const std::string why = reason(); !why.empty()) throw FabricBroken(why);
  if (next->Write(piece)) return;
  break_links(fmt::format("the link to rank {} is closed", (rank + 1) % ranks));
  throw FabricBroken(reason());
}

void GrpcFabric::Impl::send(std::uint64_t tag, std::string_view bytes) {
  Piece piece;
  piece.set_tag(tag);
  piece.set_data(bytes.data(), bytes.size());
  write(piece);
}

std::string GrpcFabric::Impl::receive(std::uint64_t tag) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !incoming.empty() || !broken.empty(); });
  if (!broken.empty()) throw FabricBroken(broken);
  Piece piece = std::move(incoming.front());
  incoming.pop_front();
  ensure(piece.tag() == tag, "the pieces of a link arrive in order");
  return std::move(*piece.mutable_data());
}

void GrpcFabric::Impl::read_pongs() {
  Pong pong;
  while (next->Read(&pong)) {
    round_trip_s = static_cast<double>(clock_nanos() - pong.ping()) * 1e-9;
  }
  break_links(fmt::format("the link to rank {} is closed", (rank + 1) % ranks));
}

GrpcFabric::GrpcFabric(std::uint32_t rank, std::uint32_t ranks, const std::string& address,
                       const std::string& token)
    : impl_(std::make_unique<Impl>(rank, ranks, token)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterService(impl_.get());
  impl_->server = builder.BuildAndStart();
  if (!impl_->server) {
    throw Error(ErrorKind::environment, fmt::format("cannot listen at '{}'", address));
  }
}

GrpcFabric::~GrpcFabric() = default;

void GrpcFabric::connect(const std::vector<std::string>& addresses) {
  Impl& impl = *impl_;
  if (impl.ranks == 1) return;
  const std::string& address = addresses.at((impl.rank + 1) % impl.ranks);
  impl.stub = Neighbour::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  impl.call.set_wait_for_ready(true);
  {
    const std::scoped_lock lock(impl.mutex);
    if (!impl.broken.empty()) throw FabricBroken(impl.broken);
    impl.calling = true;
  }
  // Not under the lock: this waits for the next rank, and only a cancelled call gives up.
  impl.next = impl.stub->Link(&impl.call);
  Piece hello;
  hello.mutable_hello()->set_rank(impl.rank);
  hello.mutable_hello()->set_token(impl.token);
  impl.write(hello);
  impl.pong_reader = std::jthread([&impl] { impl.read_pongs(); });
}

std::uint32_t GrpcFabric::rank() const { return impl_->rank; }
std::uint32_t GrpcFabric::ranks() const { return impl_->ranks; }
double GrpcFabric::round_trip() const { return impl_->round_trip_s; }
void GrpcFabric::abort(const std::string& reason) { impl_->break_links(reason); }

void GrpcFabric::all_reduce(std::span<float> values) {
  if (impl_->ranks == 1) return;
  Piece ping;
  ping.set_ping(clock_nanos());
  impl_->write(ping);
  impl_->ring.all_reduce(values);
}

}  // namespace orrery::live
