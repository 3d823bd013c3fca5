# The image of every role: the command line says which. Built and run by docker-compose.yml.
FROM rust:1.95.0-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc make perl g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked -p mqgate

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/* \
 && useradd --system --no-create-home mqgate
COPY --from=build /src/target/release/mqgate /usr/local/bin/mqgate
USER mqgate
# SIGTERM drains: give it longer than drain_timeout before it is killed.
STOPSIGNAL SIGTERM
ENTRYPOINT ["mqgate"]
CMD ["--help"]
