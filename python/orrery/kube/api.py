"""Access to one API server through the official client, with plain dictionaries as objects."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Optional, Tuple

import kubernetes
import urllib3
from kubernetes.client.exceptions import ApiException

from .objects import Object

MERGE_PATCH = "application/merge-patch+json"
#: Connections that stay open: four watches, the writers of placements, and the requests beside.
CONNECTIONS = 16


class ApiError(RuntimeError):
    """The API server does not answer, or refuses a request; the text has path and reason."""


class Conflict(ApiError):
    """Somebody else has changed the object since it was read, or has created it before."""


class Missing(ApiError):
    """The object, or the whole kind of objects, does not exist."""


class Expired(ApiError):
    """The server has forgotten the version from which a watch shall continue: list again."""


class Api:
    """Requests to one API server. Thread-safe, because the client's pool of connections is.

    Parameters
    ----------
    client : kubernetes.client.ApiClient
        Configured client.
    timeout_s : float
        Deadline of each request, in seconds.
    silence_s : float
        Longest silence of a watch; the server sends a bookmark about every minute.
    """

    def __init__(self, client: Any, timeout_s: float = 5.0, silence_s: float = 90.0) -> None:
        self._client = client
        self.timeout_s = timeout_s
        self.silence_s = silence_s

    @classmethod
    def from_environment(cls, kubeconfig: str = "", context: str = "") -> "Api":
        """Return access by a kubeconfig file, or by the service account of this pod.

        Raises
        ------
        ApiError
            If neither exists.
        """
        try:
            if kubeconfig or context:
                kubernetes.config.load_kube_config(kubeconfig or None, context or None)
            else:
                kubernetes.config.load_config()
        except (kubernetes.config.ConfigException, OSError) as error:
            raise ApiError(
                f"expected a kubeconfig file or the service account of a pod, found none: {error}"
            ) from error
        configuration = kubernetes.client.Configuration.get_default_copy()
        configuration.connection_pool_maxsize = CONNECTIONS
        return cls(kubernetes.client.ApiClient(configuration))

    def get(self, path: str) -> Object:
        """Return one object."""
        return self._request("GET", path)

    def list(self, path: str) -> Tuple[List[Object], str]:
        """Return all objects of a collection and the version of the list, page by page."""
        items: List[Object] = []
        query: Dict[str, str] = {"limit": "500"}
        while True:
            page = self._request("GET", path, query=query)
            items += page.get("items") or []
            version = page["metadata"]["resourceVersion"]
            following = page["metadata"].get("continue")
            if not following:
                return items, version
            query["continue"] = following

    def create(self, path: str, body: Object) -> Object:
        """Create an object below a collection and return it; Conflict if it exists."""
        return self._request("POST", path, body)

    def replace(self, path: str, body: Object) -> Object:
        """Replace an object; Conflict if its resourceVersion is not that of the body."""
        return self._request("PUT", path, body)

    def patch(self, path: str, body: Object) -> Object:
        """Merge a patch into an object and return it.

        A patch with ``metadata.resourceVersion`` raises Conflict if the object has another one.
        """
        return self._request("PATCH", path, body)

    def watch(self, path: str, version: str) -> Iterator[Tuple[str, Object]]:
        """Ask for the changes of a collection after a version; return them as (type, object).

        The request is sent, and accepted by the server, before this method returns. The stream ends
        when the server closes or the connection breaks; the caller continues from the newest
        version.

        Raises
        ------
        Expired
            If the server no longer has this version; the stream raises it, too.
        ApiError
            If the server does not answer, or refuses the request.
        """
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "240",
        }
        response = self._send("GET", path, query=query, silence_s=self.silence_s)
        return self._read_changes(path, response)

    def _read_changes(self, path: str, response: Any) -> Iterator[Tuple[str, Object]]:
        try:
            for line in kubernetes.watch.watch.iter_resp_lines(response):
                if not line:
                    continue
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    error = Expired if status.get("code") == 410 else ApiError
                    raise error(f"watch {path}: {status.get('message', 'unknown error')}")
                yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError, ValueError):
            return  # a torn line is sent again to the next watch
        finally:
            response.close()

    def _request(
        self,
        method: str,
        path: str,
        body: Optional[Object] = None,
        query: Optional[Dict[str, str]] = None,
    ) -> Object:
        response = self._send(method, path, body, query)
        try:
            answer = json.loads(response.data)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(f"{method} {path}: expected a JSON object: {error}") from error
        if not isinstance(answer, dict):
            raise ApiError(f"{method} {path}: expected a JSON object, found another value")
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: Optional[Object] = None,
        query: Optional[Dict[str, str]] = None,
        silence_s: Optional[float] = None,
    ) -> Any:
        headers = {"Accept": "application/json"}
        headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            request = self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = self._client.call_api(
                *request, _request_timeout=(self.timeout_s, silence_s or self.timeout_s)
            ).response
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(f"{method} {path}: {error}") from error
        if 200 <= answer.status < 300:
            return answer
        kinds = {404: Missing, 409: Conflict, 410: Expired}
        text = f"{method} {path}: {answer.status} {answer.reason}{message_of(answer)}"
        raise kinds.get(answer.status, ApiError)(text)


def message_of(answer: Any) -> str:
    """Return the server's message in a refused request, after ``": "``; empty without one."""
    try:
        return ": " + str(json.loads(answer.data)["message"])
    except (urllib3.exceptions.HTTPError, OSError, ValueError, KeyError, TypeError):
        return ""
