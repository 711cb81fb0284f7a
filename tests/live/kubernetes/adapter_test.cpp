#include "live/kubernetes/adapter.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Adapter in a few lines of Python: `body` answers the request `r` in the variable `a`.
AdapterProgram program(const std::string& body, const std::string& first = "{\"ready\": True}") {
  const std::string script =
      "import json, os, socket, struct, sys, time\n"
      "c = socket.socket(fileno=3)\n"
      "def send(m):\n"
      "    b = json.dumps(m).encode(); c.sendall(struct.pack('<I', len(b)) + b)\n"
      "send(" +
      first +
      ")\n"
      "while True:\n"
      "    h = c.recv(4)\n"
      "    if not h: sys.exit(0)\n"
      "    r = json.loads(c.recv(struct.unpack('<I', h)[0]))\n"
      "    " +
      body +
      "\n"
      "    send(a)\n";
  return {.path = "/usr/bin/env",
          .arguments = {"python3", "-c", script},
          .patience = std::chrono::seconds(20)};
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(KubeAdapter, OrdersAreSentAndAnswered) {
  const auto adapter = start_adapter(
      program("a = {'refused': [json.dumps(o) for o in r['place']] if 'place' in r else "
              "json.dumps(r)}"));
  EXPECT_EQ(adapter->place_gangs({{"ml/a", {"n1", "n2"}}, {"ml/b", {"n3"}}}),
            (std::vector<std::string>{R"({"gang": "ml/a", "nodes": ["n1", "n2"]})",
                                      R"({"gang": "ml/b", "nodes": ["n3"]})"}));
  EXPECT_EQ(adapter->evict_gang("ml/a"), R"({"evict": "ml/a"})");
}

TEST(KubeAdapter, AnAnswerWithoutEachOrderIsAnError) {
  const auto adapter = start_adapter(program("a = {'refused': ['']}"));
  EXPECT_EQ(adapter->place_gangs({{"ml/a", {"n1"}}}), std::vector<std::string>{""});
  EXPECT_EQ(error_of([&] { adapter->place_gangs({{"ml/a", {"n1"}}, {"ml/b", {"n2"}}}); }),
            "Kubernetes: expected an answer, found another message");
}

TEST(KubeAdapter, AReadingAsksForTheChangesSinceTheReadingBefore) {
  // The first reading is full, later ones name the version that was asked for as a problem.
  const auto adapter = start_adapter(
      program("s = r['read']['since'] if 'read' in r else os._exit(7); "
              "a = {'leader': True, 'holder': '', 'version': s + 5, 'full': s == 0, 'gangs': [], "
              "'gone': [], 'problems': [str(s)], "
              "'nodes': [{'name': 'n1', 'gpus': 8, 'usable': True, 'rack': '', "
              "'gpu_type': ''}] if s == 0 else "
              "None}"));
  EXPECT_EQ(adapter->read_cluster(true).problems, std::vector<std::string>{"0"});
  const KubeReading second = adapter->read_cluster(true);
  EXPECT_EQ(second.problems, std::vector<std::string>{"5"});
  EXPECT_EQ(second.nodes.size(), 1u) << "nodes that have not changed are still there";
  EXPECT_NE(error_of([&] { adapter->evict_gang("ml/a"); }).find("exit code 7"), std::string::npos);
  EXPECT_EQ(adapter->read_cluster(true).problems, std::vector<std::string>{"0"})
      << "a new process knows nothing of earlier readings";
}

TEST(KubeAdapter, AFailureIsAnErrorAndTheNextCallIsAnAttempt) {
  const auto adapter = start_adapter(program("a = {'failed': 'GET /api: 403'}"));
  EXPECT_EQ(error_of([&] { adapter->read_cluster(true); }), "GET /api: 403");
  EXPECT_EQ(error_of([&] { adapter->place_gangs({{"ml/a", {"n1"}}}); }), "GET /api: 403");
}

TEST(KubeAdapter, AProcessThatEndsIsStartedAgain) {
  const auto adapter =
      start_adapter(program("os._exit(7) if 'evict' in r else None; a = {'refused': ['']}"));
  EXPECT_NE(error_of([&] { adapter->evict_gang("ml/a"); }).find("exit code 7"), std::string::npos);
  EXPECT_EQ(adapter->place_gangs({{"ml/a", {"n1"}}}), std::vector<std::string>{""});
}

TEST(KubeAdapter, AProcessThatCannotServeSaysWhy) {
  EXPECT_EQ(error_of([] { start_adapter(program("a = {}", "{'failed': 'no kubeconfig'}")); }),
            "no kubeconfig");
}

TEST(KubeAdapter, AProcessThatGivesNoAnswerIsReplaced) {
  AdapterProgram slow = program("time.sleep(60 if 'evict' in r else 0); a = {'refused': ['']}");
  slow.patience = std::chrono::seconds(5);
  const auto adapter = start_adapter(slow);
  EXPECT_EQ(error_of([&] { adapter->evict_gang("ml/a"); }),
            "Kubernetes: expected an answer within 5 s, found none");
  EXPECT_EQ(adapter->place_gangs({{"ml/a", {"n1"}}}), std::vector<std::string>{""});
}

}  // namespace
}  // namespace orrery::live
