#include "topologies/cluster.hpp"

#include <array>
#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "python/bindings/bindings.hpp"
#include "topologies/part.hpp"

namespace py = pybind11;

namespace orrery::python {
namespace {

std::string_view fabric_name(const Cluster& cluster) { return name_of(cluster.shape().fabric); }

PartKind kind_of(const std::string& name) {
  if (const std::optional<PartKind> kind = find_named<PartKind>(name)) return *kind;
  throw py::value_error("there is no kind of part '" + name + "'");
}

std::vector<std::uint32_t> route(const Cluster& cluster, std::uint32_t from, std::uint32_t to) {
  std::vector<LinkId> links;
  cluster.route({from}, {to}, links);
  std::vector<std::uint32_t> out;
  for (const LinkId link : links) out.push_back(link.value);
  return out;
}

template <class Ids>
std::vector<std::uint32_t> values_of(const Ids& ids) {
  std::vector<std::uint32_t> out;
  for (const auto id : ids) out.push_back(id.value);
  return out;
}

}  // namespace

/// Numbers are checked by orrery._cluster.
void bind_cluster(py::module_& module) {
  py::class_<Cluster>(module, "Cluster", "The immutable description of a cluster.")
      .def_property_readonly("gpus", &Cluster::gpus)
      .def_property_readonly("nodes", &Cluster::nodes)
      .def_property_readonly("rails", &Cluster::rails)
      .def_property_readonly("units", &Cluster::units)
      .def_property_readonly("links", &Cluster::links)
      .def_property_readonly("gpus_per_node",
                             [](const Cluster& c) { return c.shape().gpus_per_node; })
      .def_property_readonly("slices_per_gpu",
                             [](const Cluster& c) { return c.shape().slices_per_gpu; })
      .def("gpu_kind",
           [](const Cluster& c, std::uint32_t node) { return c.gpu_kind(NodeId{node}); })
      .def_property_readonly("gpus_per_domain", &Cluster::gpus_per_domain)
      .def_property_readonly("fabric", &fabric_name)
      .def_property_readonly("gpu_name", [](const Cluster& c) { return c.gpu_model().name; })
      .def_property_readonly("gpu_memory",
                             [](const Cluster& c) { return c.gpu_model().memory.value; })
      .def_property_readonly("nic_bandwidth",
                             [](const Cluster& c) { return c.shape().nic_bandwidth.value; })
      .def_property_readonly("nvlink_bandwidth",
                             [](const Cluster& c) { return c.gpu_model().nvlink.value; })
      .def(
          "node_of", [](const Cluster& c, std::uint32_t gpu) { return c.node_of({gpu}).value; },
          py::arg("gpu"))
      .def(
          "rail_of", [](const Cluster& c, std::uint32_t gpu) { return c.rail_of({gpu}); },
          py::arg("gpu"))
      .def(
          "domain_of", [](const Cluster& c, std::uint32_t gpu) { return c.domain_of({gpu}); },
          py::arg("gpu"))
      .def(
          "unit_of", [](const Cluster& c, std::uint32_t node) { return c.unit_of({node}); },
          py::arg("node"))
      .def(
          "link_name", [](const Cluster& c, std::uint32_t link) { return c.link_name({link}); },
          py::arg("link"))
      .def(
          "link_bandwidth",
          [](const Cluster& c, std::uint32_t link) { return c.link({link}).bandwidth.value; },
          py::arg("link"))
      .def("route", &route, py::arg("source"), py::arg("target"))
      .def(
          "count_of",
          [](const Cluster& c, const std::string& kind) { return count_of(c, kind_of(kind)); },
          py::arg("kind"))
      .def(
          "links_of",
          [](const Cluster& c, const std::string& kind, std::uint32_t index) {
            return values_of(links_of(c, {kind_of(kind), index}));
          },
          py::arg("kind"), py::arg("index"))
      .def(
          "gpus_of",
          [](const Cluster& c, const std::string& kind, std::uint32_t index) {
            return values_of(gpus_of(c, {kind_of(kind), index}));
          },
          py::arg("kind"), py::arg("index"));
}

}  // namespace orrery::python
