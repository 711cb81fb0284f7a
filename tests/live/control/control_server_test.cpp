#include "live/control/control_server.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/control/control_client.hpp"
#include "live/control/protocol.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

class ControlPlane : public ::testing::Test {
 protected:
  struct Said {
    std::uint32_t rank;
    AgentMessage::KindCase kind;  ///< not set: the stream ended
  };

  ControlPlane()
      : address_("unix:" + folder_.path() + "/controller"),
        server_(address_, Secrets{.token = "secret"}, 2,
                [this](std::uint32_t rank, const AgentMessage* message) {
                  const std::scoped_lock lock(mutex_);
                  said_.push_back(
                      {rank, message ? message->kind_case() : AgentMessage::KIND_NOT_SET});
                  changed_.notify_all();
                }) {}

  static Hello hello(std::uint32_t rank, const std::string& token) {
    Hello out;
    out.set_protocol(kProtocol);
    out.set_rank(rank);
    out.set_token(token);
    return out;
  }
  Said next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !said_.empty(); });
    const Said first = said_.front();
    said_.pop_front();
    return first;
  }
  bool refuses(const Hello& greeting) {
    ControlClient client(address_, {}, greeting);
    const bool ended = !client.read().has_value();
    const std::scoped_lock lock(mutex_);
    return ended && said_.empty();
  }

  RunFolder folder_;
  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Said> said_;
  ControlServer server_;
};

TEST_F(ControlPlane, CarriesMessagesBothWaysAndNoticesTheEnd) {
  {
    ControlClient client(address_, {}, hello(1, "secret"));
    EXPECT_EQ(next().kind, AgentMessage::kHello);
    AgentMessage message;
    message.mutable_ready();
    EXPECT_TRUE(client.send_message(message));
    const Said ready = next();
    EXPECT_EQ(ready.kind, AgentMessage::kReady);
    EXPECT_EQ(ready.rank, 1u);
    ControllerMessage order;
    order.mutable_directive()->set_epoch(12);
    EXPECT_TRUE(server_.send_message(1, order));
    EXPECT_FALSE(server_.send_message(0, order));  // nobody there
    const auto got = client.read();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->directive().epoch(), 12u);
  }
  EXPECT_EQ(next().kind, AgentMessage::KIND_NOT_SET);
}

TEST_F(ControlPlane, RefusesAWrongTokenRankOrProtocol) {
  EXPECT_TRUE(refuses(hello(0, "guess")));
  EXPECT_TRUE(refuses(hello(0, "")));
  EXPECT_TRUE(refuses(hello(2, "secret")));
  Hello old = hello(0, "secret");
  old.set_protocol(kProtocol + 1);
  EXPECT_TRUE(refuses(old));
}

TEST_F(ControlPlane, RefusesASecondAgentOfARank) {
  ControlClient first(address_, {}, hello(0, "secret"));
  EXPECT_EQ(next().kind, AgentMessage::kHello);
  Hello second = hello(0, "secret");
  second.set_pid(77);
  EXPECT_TRUE(refuses(second));
  AgentMessage message;
  message.mutable_ready();
  EXPECT_TRUE(first.send_message(message));
  EXPECT_EQ(next().kind, AgentMessage::kReady);
}

TEST_F(ControlPlane, AProcessWhoseStreamBrokeComesInAgainAndSaysWhatWasLost) {
  ControlClient agent(address_, {}, hello(0, "secret"));
  EXPECT_EQ(next().kind, AgentMessage::kHello);
  ControlClient again(address_, {}, hello(0, "secret"));
  EXPECT_FALSE(again.read().has_value());  // the old stream is in the way, and is ended
  EXPECT_EQ(next().kind, AgentMessage::KIND_NOT_SET);
  EXPECT_FALSE(agent.read().has_value());
  agent.reopen_stream([] {
    AgentMessage report;
    report.mutable_step_report();
    return std::vector<AgentMessage>{report};
  });
  EXPECT_EQ(next().kind, AgentMessage::kHello);
  EXPECT_EQ(next().kind, AgentMessage::kStepReport);
}

TEST(ControlServer, AnAddressThatCannotBeIsAnEnvironmentError) {
  try {
    ControlServer server("unix:/no/such/folder/socket", {}, 1,
                         [](std::uint32_t, const AgentMessage*) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
}

}  // namespace
}  // namespace orrery::live
