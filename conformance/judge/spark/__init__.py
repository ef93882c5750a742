"""The Spark session of the judge: started in the background, warmed up, and its JVM."""
