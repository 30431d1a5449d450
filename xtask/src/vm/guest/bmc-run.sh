#!/bin/sh
# Runs the commands in the body of a request. The last line of the answer is their exit code.
export PATH=/bin HOME=/root
echo "Content-Type: text/plain"
echo
timeout 120 sh 2>&1
echo "exit $?"
