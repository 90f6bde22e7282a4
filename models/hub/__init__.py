"""Downloads models from the hub into the Hugging Face cache, which all tools on this machine share.

    client             the hub's address, what is sent to it, the retries, and the account of a token
    repo_names         checks the names of repositories, revisions and files that come from outside
    repo_files         selects the files to download and lists them with sizes and digests
    repo_cache         the folders of blobs and snapshots, and unfinished downloads
    download           downloads a whole model, several files at once, as a stream of events
    download_events    those events
    download_progress  counts bytes and measures the speed
    file_transfer      downloads and resumes one file and checks its digest
    request_bounds     bounds the time and size of answers, and where they may send to
    failures           turns errors into one line that says what to do

This package imports nothing, so that a lightweight process can import `models.hub.download_events`.
"""
