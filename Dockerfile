# Image with the command line and the Python package:  docker build -t orrery .
#   docker run --rm orrery simulate llama3-70b-512-h100
# With the client of Kubernetes: docker build -t orrery --build-arg EXTRAS='[kubernetes]' .
# The first stage builds the wheel as ./dev wheel does; the second has Debian's Python and the wheel.
FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git ca-certificates
COPY . /orrery
WORKDIR /orrery
RUN ./dev wheel --python /usr/bin/python3

FROM debian:12-slim
ARG EXTRAS=
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /orrery/build/wheels/ /wheels/
RUN python3 -m venv /opt/orrery \
    && /opt/orrery/bin/pip install --no-cache-dir "$(echo /wheels/orrery-*.whl)$EXTRAS" \
    && rm -r /wheels
ENV PATH=/opt/orrery/bin:$PATH
RUN useradd --home-dir /data --create-home orrery
USER orrery
WORKDIR /data
ENTRYPOINT ["orrery"]
CMD ["--help"]
