// Worker's inbox of the client's messages.
#include "policies/run/client_policy.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/process.hpp"

namespace orrery {
namespace {

/// Takes the place of the client of this process.
class ClientInboxTest : public testing::Test {
 protected:
  ClientInboxTest() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) throw std::runtime_error("no sockets");
    client_ = dup(ends[0]);
    dup2(ends[1], kChildDescriptor);
    for (const int end : ends) {
      if (end != kChildDescriptor) close(end);
    }
  }
  ~ClientInboxTest() override {
    close(client_);
    close(kChildDescriptor);
  }
  void send(const PolicyAnswer& message) const {
    ASSERT_TRUE(write_message(client_, message.SerializeAsString()));
  }

  int client_ = -1;
  ClientInbox inbox_;
};

TEST_F(ClientInboxTest, AnswersAreReturnedAndVerdictsAreKept) {
  EXPECT_FALSE(ClientInbox::has_message(0));
  PolicyAnswer verdict, answer;
  verdict.mutable_verdict()->set_decision(7);
  verdict.mutable_verdict()->set_accepted(true);
  answer.set_at_rest(true);
  send(verdict);
  send(answer);
  EXPECT_TRUE(ClientInbox::has_message(0));
  EXPECT_FALSE(inbox_.read_answer().has_value());
  EXPECT_TRUE(inbox_.has_verdict_on(7));
  EXPECT_FALSE(inbox_.has_verdict_on(8));
  EXPECT_TRUE(inbox_.read_answer()->at_rest());
  EXPECT_EQ(inbox_.drain_verdicts().size(), 1u);
  EXPECT_TRUE(inbox_.drain_verdicts().empty());
}

TEST_F(ClientInboxTest, AClientThatIsGoneIsAnErrorOfTheEnvironment) {
  close(client_);
  try {
    inbox_.read_answer();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
  }
}

}  // namespace
}  // namespace orrery
