"""Airflow: retrains what is due, once an hour. Put it into the folder of DAGs, filled by deploy.fill.

The command has an environment of its own, the checkout's, so Airflow needs nothing of it.
"""

import datetime
import subprocess

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

CHECKOUT = "@CHECKOUT@"
COMMAND = (
    f"{CHECKOUT}/.venv/bin/python",
    "-m",
    "pipeline.retrain",
    "reconcile",
    "--config=@CONFIG@",
    "--root=@ROOT@",
    "--fail_on_reject",
)
CALL_AGAIN = 75


@dag(
    dag_id="penstock_retrain",
    schedule="17 * * * *",
    start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    catchup=False,  # one call does all that is due
    max_active_runs=1,
)
def penstock_retrain() -> None:
    @task(retries=6, retry_delay=datetime.timedelta(minutes=2))
    def reconcile() -> None:
        code = subprocess.run(COMMAND, cwd=CHECKOUT, check=False).returncode
        if code == CALL_AGAIN or code < 0:  # or it was killed
            raise AirflowException(f"exit code {code}: called again")
        if code:
            raise AirflowFailException(f"exit code {code}: calling again changes nothing")

    reconcile()


penstock_retrain()
