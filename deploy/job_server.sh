#!/usr/bin/env bash
# Puts Beam's job server for Flink or Spark at build/engines/<engine>/job-server.jar:
#
#   deploy/job_server.sh flink|spark
#
# The jar that Beam publishes, of the version that is installed here; or where Maven Central does not have it,
# one of another version, put together from the libraries in deploy/<engine>/pom.xml.
set -euo pipefail
cd "$(dirname "$0")/.."

engine=$1
version=$(sed -n 's/^apache-beam==//p' requirements.in)
case $engine in
  flink) artifact=beam-runners-flink-1.19-job-server ;;
  spark) artifact=beam-runners-spark-3-job-server ;;
  *) echo "error: received '$engine'; expected flink or spark" >&2; exit 2 ;;
esac
jar=build/engines/$engine/job-server.jar
url=https://repo.maven.apache.org/maven2/org/apache/beam/$artifact/$version/$artifact-$version.jar

mkdir -p "$(dirname "$jar")"
if curl --fail --silent --location --output "$jar.part" "$url"; then
  mv "$jar.part" "$jar"
  echo "$engine: $artifact $version"
else
  rm -f "$jar.part"
  mvn --quiet --batch-mode -Dstyle.color=never --file "deploy/$engine/pom.xml" package
  other=$(sed -n 's/.*<beam.version>\(.*\)<.*/\1/p' "deploy/$engine/pom.xml")
  echo "$engine: $url cannot be had; put together from the libraries of Beam $other, which is not the $version of the workers"
fi
